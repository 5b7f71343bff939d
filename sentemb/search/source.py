"""Where an index's encoder comes from, so that the index can call it again."""

from __future__ import annotations

from sentemb.encoding.spec import EncoderSpec as EncoderSource

__all__ = ["EncoderSource"]
