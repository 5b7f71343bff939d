from .fit import FlowConfig as FlowConfig
from .fit import add_flow as add_flow
from .fit import add_whitening as add_whitening
from .fit import fit_flow as fit_flow
from .fit import fit_whitening as fit_whitening
