from .classifier import Classifier as Classifier
from .classifier import ClassifierEvaluator as ClassifierEvaluator
from .fit import ClassifierRun as ClassifierRun
from .fit import fit_classifier as fit_classifier
from .fit import read_own_labelled as read_own_labelled
from .fit import read_own_texts as read_own_texts
