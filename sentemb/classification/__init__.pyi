from .classifier import Classifier as Classifier
from .evaluator import ClassifierEvaluator as ClassifierEvaluator
from .fit import ClassifierRun as ClassifierRun
from .fit import fit_classifier as fit_classifier
from .program import read_own_labelled as read_own_labelled
from .program import read_own_texts as read_own_texts
