from .distillation import Agreement as Agreement
from .distillation import StaticOptions as StaticOptions
from .distillation import Student as Student
from .distillation import distill_static as distill_static
from .distillation_folder import save_student as save_student
from .distillation_texts import draw_texts as draw_texts
from .static_files import write_static as write_static
