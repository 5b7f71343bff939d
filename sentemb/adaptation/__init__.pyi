from .config import AdaptConfig as AdaptConfig
from .outcome import Adapted as Adapted
from .pairs import Pair as Pair
from .pairs import draw_pairs as draw_pairs
from .run import adapt as adapt
