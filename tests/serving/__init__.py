"""Named as a package, so that files of one name in several rooms do not collide."""

from __future__ import annotations
