from .encoder import NonFiniteError as NonFiniteError
from .encoder import Precision as Precision
from .encoder import Role as Role
from .encoder import TextEncoder as TextEncoder
from .family import encode_together as encode_together
from .resolve import load_encoder as load_encoder
from .roles import for_role as for_role
from .roles import similarity_of as similarity_of
