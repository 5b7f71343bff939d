"""What is fitted on the vectors of a frozen encoder and becomes its last module: whitening and BERT-flow."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
