from .run import PretrainConfig as PretrainConfig
from .run import pretrain as pretrain
