from .append import add_flow as add_flow
from .append import add_whitening as add_whitening
from .append import append_transform as append_transform
from .flow import FlowConfig as FlowConfig
from .flow import fit_flow as fit_flow
from .flow import flow_config as flow_config
from .whitening import fit_soft_whitening as fit_soft_whitening
from .whitening import fit_whitening as fit_whitening
