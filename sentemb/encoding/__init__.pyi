from .encoder import EncoderSpec as EncoderSpec
from .encoder import NonFiniteError as NonFiniteError
from .encoder import Precision as Precision
from .encoder import Role as Role
from .encoder import TextEncoder as TextEncoder
from .encoder import for_role as for_role
from .encoder import similarity_of as similarity_of
from .resolve import load_encoder as load_encoder
