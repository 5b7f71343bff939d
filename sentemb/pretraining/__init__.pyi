from .model import save_model as save_model
from .run import PretrainConfig as PretrainConfig
from .run import pretrain as pretrain
