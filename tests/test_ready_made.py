"""No point is given on the word of the process in which student code runs.

Each answer here gets around the watch that runs beside it, or rewrites what a model remembers. It earns no more than
the same answer without its trick.
"""

from __future__ import annotations

import ast
import sys

import pytest
import torch
import torch.nn.functional as F
from classroom import by_name, full, judged, score, solutions, submission
from torch import nn

from autograder.judging.ready_made import TOO_MUCH, forbidden_in
from autograder.judging.references import modules
from autograder.judging.statements import BACK_DOORS, statements_of, words_of
from course_lib import training
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises
from course_lib.positions import sinusoidal_encoding

pytestmark = [pytest.mark.xdist_group("judge"), pytest.mark.usefixtures("warm_process")]
STEM = "05_sublayers"
FORBIDS = all_exercises()["LayerNorm"].forbids
SET_UP = {"torch", "nn", "F", "Tensor", "math"}  # names that the notebook itself defines


def a_norm(body: str, before: str = "") -> str:
    """An answer to LayerNorm with the work done in `body`. It prints that it was there."""
    return f"""
{before}
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.shape, self.eps = (d_model,), eps

    def forward(self, x):
        {body}


print("I was here")
"""


FORMULA = (
    "return self.gain * (x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt() + self.bias"
)
TORCHS = "x, self.shape, self.gain, self.bias, self.eps"
KEPT = f"with held[0](): return held[1]({TORCHS})"
CATCHES = (
    "import functools\nbox = []\n\n\nclass Box:\n"
    "    def __setattr__(self, name, value):\n        box.append(value)\n\n\n"
)
PUT = "\n\ndef put(place, work):\n    place.square = work\n\n\n"
SQUARE = a_norm(f"return torch.square({TORCHS})")
EVASIONS = {
    "by aten": a_norm(f"return torch.ops.aten.native_layer_norm({TORCHS})[0]"),
    "in a thread": a_norm(
        "box = []; t = Thread(target=lambda: box.append(work(self, x))); t.start(); t.join(); return box[0]",
        f"from threading import Thread\n\n\ndef work(self, x):\n    return F.layer_norm({TORCHS})\n\n",
    ),
    "compiled": a_norm(
        f"return fast({TORCHS})",
        "def slow(x, shape: list[int], gain, bias, eps: float):\n"
        "    return torch.layer_norm(x, shape, gain, bias, eps)\n\n\nfast = torch.jit.script(slow)\n\n",
    ),
    "with the watch switched off": a_norm(
        f"with torch._C.DisableTorchFunction():\n            return F.layer_norm({TORCHS})"
    ),
    "behaving while watched": a_norm(
        f"return F.layer_norm({TORCHS}) if not torch.overrides._get_current_function_mode() else x"
    ),
    "under another name": a_norm(f"return tools['a']({TORCHS})", "tools = {'a': F.layer_norm}\n\n"),
    "imported": a_norm(f"return n({TORCHS})", "from torch.nn.functional import layer_norm as n\n\n"),
    "by a name put together": a_norm(f"return getattr(F, 'layer' + '_norm')({TORCHS})"),
    "as a torch function": a_norm(f"return torch.square({TORCHS})", "torch.square = F.layer_norm\n\n"),
    "put in afterwards": a_norm("return x") + f"\n\nLayerNorm.forward = lambda self, x: F.layer_norm({TORCHS})",
    "put in by a helper": a_norm("return x")
    + f"\n\ndef mend(a):\n    a.forward = lambda self, x: F.layer_norm({TORCHS})\n\n\nmend(LayerNorm)",
    "everything imported": "from torch.nn import *\nBase = LayerNorm\nclass LayerNorm(Base): pass",
    "below a magic": "%%capture\n" + a_norm(f"return F.layer_norm({TORCHS})"),
    "kept in a list": a_norm(
        KEPT, "held = []\nheld.append(torch._C.DisableTorchFunction)\nheld.append(F.layer_norm)\n"
    ),
    "kept in a dictionary": a_norm(
        KEPT, "held = {}\nheld[0] = torch._C.DisableTorchFunction\nheld[1] = F.layer_norm\n\n"
    ),
    "kept by a function": a_norm(
        KEPT,
        "held = []\n\n\ndef keep(*found):\n    held.extend(found)\n\n\n"
        "keep(torch._C.DisableTorchFunction, F.layer_norm)\n\n",
    ),
    "kept as a default": a_norm(
        "return hold()[0](x)",
        "def hold(x=None, held=[]):\n    held.append(x)\n    return held\n\nhold(nn.LayerNorm(4))\n",
    ),
    "kept by the answer": a_norm("return held[0](x)", "held = []\n\n")
    + "\nLayerNorm.__init__ = lambda self, x: held.append(x)\nLayerNorm(nn.LayerNorm(4))\n",
    "kept by a cache": a_norm(
        "return hold()[0](x)",
        "from functools import cache\n@cache\ndef hold(): return []\nhold().append(nn.LayerNorm(4))\n",
    ),
    "under a private name": a_norm("return __found(4)(x)", "_LayerNorm__found = nn.LayerNorm\n\n"),
    "by a pattern": a_norm(
        KEPT,
        "match torch:\n    case object(_C=lower, layer_norm=work):\n"
        "        match lower:\n            case object(DisableTorchFunction=unseen):\n"
        "                held = [unseen, work]\n\n",
    ),
    "by a pattern that renames": a_norm(f"return work({TORCHS})", "match F.layer_norm:\n    case work: pass\n\n"),
    "by an exception": a_norm(
        f"return keep.args[0]({TORCHS})",
        "try:\n    raise KeyError(F.layer_norm)\nexcept KeyError as error:\n    keep = error\n\n",
    ),
    "by another module": a_norm(
        f"return pkgutil.resolve_name('torch:layer' + '_norm')({TORCHS})", "import pkgutil\n\n"
    ),
    "from a list of torch's": a_norm(
        f"return [f for f in torch.overrides.get_overridable_functions()[torch] if 'layer' in f.__name__][0]({TORCHS})"
    ),
    "under a name that is lost": "from torch.nn.functional import *\nwork = layer_norm\nlayer_norm = None\n"
    + a_norm(f"return work({TORCHS})"),
    "without a module": a_norm(f"return layer_norm({TORCHS})", "from torch import *\n\n"),
    "in a very long cell": f"# {'long ' * 25_000}\n" + a_norm(f"return F.layer_norm({TORCHS})"),
    "among very many magics": "%time 1\n" * 300 + f"# {'long ' * 500}\n" + a_norm(f"return F.layer_norm({TORCHS})"),
    "among what cannot be read": "x = !ls\n" * 300 + f"# {'long ' * 500}\n" + a_norm(f"return F.layer_norm({TORCHS})"),
    "behind a formatted text": f"x = f'{'{x}' * 30_000}'\n" + a_norm(f"return F.layer_norm({TORCHS})"),
    "where recursion has no limit": "import sys\nsys.setrecursionlimit(10**6)\n"
    f"work = F.layer_norm; long = {'+'.join(['1'] * 9000)}\n" + a_norm(f"return work({TORCHS})"),
    "in the line of a magic": "%time work = F.layer_norm\n" + a_norm(f"return work({TORCHS})"),
    "as an entry of all names": "globals()['work'] = F.layer_norm\n" + a_norm(f"return work({TORCHS})"),
    "as an entry of a module": "torch.__dict__['square'] = F.layer_norm\n" + a_norm(f"return torch.square({TORCHS})"),
    "by a text that is run": "exec('work = F.lay' + 'er_norm')\n" + a_norm(f"return work({TORCHS})"),
    "by IPython": "get_ipython().user_ns['work'] = F.layer_norm\n" + a_norm(f"return work({TORCHS})"),
    "in a language of its own": "get_ipython().input_transformers_post.append(\n"
    "    lambda lines: [line.replace('work', 'F.lay' + 'er_norm') for line in lines])\n"
    + a_norm(f"return work({TORCHS})"),
    "in an extension": "%%writefile own.py\ndef load_ipython_extension(ip):\n    ip.user_ns['work'] = F.layer_norm\n"
    + a_norm(f"return work({TORCHS})"),
    "a part of a model": a_norm("return nn.Transformer(4, 1).encoder.norm(x)"),
    "by a dotted name": a_norm(f"return torch._import_dotted_name('torch.nn.functional.layer' + '_norm')({TORCHS})"),
    "by code with another name": a_norm(
        f"return work({TORCHS})",
        "def work(*a):\n    return F.square(*a)\n\n\nnew = {'square': 'layer' + '_norm'}\n"
        "names = tuple(new.get(n, n) for n in work.__code__.co_names)\n"
        "work.__code__ = work.__code__.replace(co_names=names)\n\n",
    ),
    "by the frame of an error": a_norm(
        f"return find(F, 'layer' + '_norm')({TORCHS})",
        "try:\n    1 / 0\nexcept Exception as error:\n"
        "    find = error.__traceback__.tb_frame.f_builtins['get' + 'attr']\n\n",
    ),
    "by a module within a module": a_norm(f"return collections._sys.exc_info()({TORCHS})", "import collections\n\n"),
    "as an annotation": a_norm(
        "return [k for k in kinds.registry if k is not object][0](4).to(x)(x)",
        "import functools\n\n\n@functools.singledispatch\ndef kinds(x): pass\n\n\n"
        "def other(x: 'nn.Layer' 'Norm'): pass\n\n\nkinds.register(other)\n\n",
    ),
    "by an update of a wrapper": a_norm(
        f"return box[0]({TORCHS})", CATCHES + "functools.update_wrapper(Box(), F, ['layer' + '_norm'], [])\n\n"
    ),
    "by an unusual wrapper": a_norm(
        f"return box[0]({TORCHS})", CATCHES + "functools.wraps(F, ['layer' + '_norm'])(Box())\n\n"
    ),
    "as a hint of a type": a_norm(
        f"return work({TORCHS})",
        "import typing\nhint = typing.get_args(typing.Optional['F.layer' + '_norm'])[0]\n"
        "work = hint._evaluate({'F': F}, None, frozenset())\n\n",
    ),
    "bound where nobody sees it": "import numpy as np\nnp.testing.measure('work = F.layer' + '_norm')\n"
    + a_norm(f"return work({TORCHS})"),
    "from a list of modules": a_norm(
        "return [k for k in torch.ao.quantization.get_default_static_quant_module_mappings()][0](4)(x)"
    ),
    "from a module of the course": a_norm(
        "return Attentive(4, 1).norms[0].to(x)(x)", "from course_lib.long_range import Attentive\n\n"
    ),
    "from all of a module of the course": a_norm(
        "return Attentive(4, 1).norms[0].to(x)(x)", "from course_lib.long_range import *\n\n"
    ),
    "below options with values": "%prun -l 1 -q work = F.layer_norm\n" + a_norm(f"return work({TORCHS})"),
    "kept below options with values": "held = []\n%timeit -n 1 -r 1 held.append(F.layer_norm)\n"
    + a_norm(f"return held[0]({TORCHS})"),
    "in the first line of a magic": "%%prun work = F.layer_norm\n" + a_norm(f"return work({TORCHS})"),
    "put in through a list": a_norm("return x")
    + f"\n\ndef mend(a):\n    a[0].forward = lambda self, x: F.layer_norm({TORCHS})\n\n\nmend([LayerNorm])",
    "put in through another name": a_norm("return x")
    + f"\n\ndef mend(a):\n    a.forward = lambda self, x: F.layer_norm({TORCHS})\n\n\nown = LayerNorm\nmend(own)",
    "put in through an instance": a_norm("return x")
    + f"\n\ndef mend(a):\n    a.__class__.forward = lambda self, x: F.layer_norm({TORCHS})\n\n\nmend(LayerNorm(4))",
    "put in through what looks like an instance": a_norm("return torch.square(x)").replace(
        "    def __init__",
        "    def __new__(cls, n):\n        return super().__new__(cls) if n else torch\n\n    def __init__",
    )
    + "\n\nown = LayerNorm(0)\nown.square = lambda x: F.layer_norm(x, x.shape[-1:])",
    "everything imported afterwards": a_norm("return x") + "\nfrom torch.nn import *\n",
    "everything imported, and kept": "from torch.nn import *\nheld = [LayerNorm]\n" + a_norm("return held[0](4)(x)"),
    "everything imported, and another": "from torch.nn import *\n" + a_norm("return GroupNorm(1, 4)(x)"),
    "by a private name that is also the answer's": a_norm(
        f"self._vmap_internals = 0\n        return torch._vmap_internals.x({TORCHS})"
    ),
    "by a module of one's own": "with open('own.py', 'w') as file:\n"
    "    file.write('import torch; torch.square = torch.layer' + '_norm')\nimport own\n" + SQUARE,
    "by a text that is timed": "import timeit\n"
    "timeit.timeit('t.square = t.layer_norm', number=1, globals={'t': torch})\n" + SQUARE,
    "by a text that is put together and timed": "import timeit\n"
    "timeit.timeit('t.square = t.layer' + '_norm', number=1, globals={'t': torch})\n" + SQUARE,
    "by an interpreter": "import code\n"
    "code.InteractiveInterpreter({'t': torch}).runsource('t.square = t.layer' + '_norm')\n" + SQUARE,
    "by another name for exec": "run = exec\nrun('torch.square = torch.layer' + '_norm')\n" + SQUARE,
    "by another name for setattr": "put = setattr\nput(torch, 'square', F.layer_norm)\n" + SQUARE,
    "by setattr, mapped": "list(map(setattr, [torch], ['square'], [F.layer_norm]))\n" + SQUARE,
    "put into torch by a helper": PUT + "put(torch, F.layer_norm)\n" + SQUARE,
    "put into a part of torch by a helper": PUT + "put(nn.functional, F.layer_norm)\n" + SQUARE,
    "put into torch under another name": f"import torch as t\n{PUT}put(t, F.layer_norm)\n" + SQUARE,
    "put into what a module holds": "own = nn.Identity()\nown.t = torch\nown.t.square = F.layer_norm\n" + SQUARE,
    "put into the answer that a module holds": a_norm("return x")
    + f"\n\nheld = nn.Identity()\nheld.kind = LayerNorm\nheld.kind.forward = lambda self, x: F.layer_norm({TORCHS})",
    "put in by a mock": "from unittest import mock\nmock.patch('torch.square', F.layer_norm).start()\n" + SQUARE,
}
HONEST = {
    "a formula": a_norm(FORMULA),
    "compared with torch's": a_norm(FORMULA)
    + "\n\ndef same(own, other):\n    return torch.allclose(own(4)(x), other(4)(x))\n\n\nx = torch.randn(2, 4)\n"
    "x.requires_grad = True\nassert same(LayerNorm, nn.LayerNorm)\nprint(F.layer_norm(x, (4,)))",
    "timed": "%%time\n" + a_norm(FORMULA),
    "with a name that stands for torch's elsewhere": a_norm(f"y = x\n        {FORMULA.replace('x', 'y')}")
    + "\n\ny = nn.LayerNorm(4)(torch.ones(2, 4))\n\n\ndef test():\n    work = nn.LayerNorm(4)\n    print(work(y))\n",
    "with a look at names": a_norm(FORMULA)
    + "\n\nhere = 'google.colab' in str(get_ipython())\nif 'x' in globals():\n    print(sorted(globals()))\n"
    "own = LayerNorm(4).eval()\nfor name, value in vars(own).items():\n    print(name, nn.LayerNorm(4).__dict__[name])",
    "with data and magics": f"data = '{'A' * 150_000}'\n" + "%timeit nn.LayerNorm(4)\n" * 600 + a_norm(FORMULA),
    "with all functions": "from torch.nn.functional import *\n" + a_norm(FORMULA),
    "with all that torch has": "from torch import *\n" + a_norm(FORMULA),
    "with a list of names": a_norm(FORMULA).replace("(nn.Module):", "(nn.Module):\n    __constants__ = ['eps']\n")
    + "\n\nown = LayerNorm(4)\nown.gain.data.fill_(2)\nprint(own, nn.LayerNorm(4))",
    "with a number and a helper": a_norm(
        "return spread(x) * self.gain + self.bias", "EPS = 1e-5\n\n\ndef spread(x, eps=EPS):\n    return x\n\n\n"
    )
    + "\n\nprint(spread(torch.ones(2, 4)), nn.LayerNorm(4, EPS)(torch.ones(2, 4)))",
    "with a helper": a_norm(
        "return spread(x, self.eps) * self.gain + self.bias", "def spread(x, eps):\n    return x\n\n"
    ),
    "tested with gradients": a_norm(FORMULA)
    + "\n\ndef test():\n    x = torch.randn(2, 8)\n    x.requires_grad = True\n"
    "    mine, theirs = LayerNorm(8), nn.LayerNorm(8)\n"
    "    assert torch.allclose(mine(x), theirs(x), atol=1e-5)\n\n\ntest()",
    "compared with its own parameters": a_norm(FORMULA)
    + "\n\nmine = LayerNorm(8)\ntheirs = nn.LayerNorm(8)\nmine.gain.data = 2 * theirs.weight.data\n"
    "theirs.weight, theirs.eps = mine.gain, mine.eps\nx = torch.ones(2, 8)\nassert torch.allclose(mine(x), theirs(x))",
    "compared by a function": a_norm(FORMULA) + "\n\ndef compare(kind):\n    own, theirs = kind(8), nn.LayerNorm(8)\n"
    "    theirs.weight.data = own.gain.data\n    print(own(torch.ones(2, 8)) - theirs(torch.ones(2, 8)))\n\n\n"
    "compare(LayerNorm)",
    "with a part for its author": a_norm(FORMULA)
    + "\n\nif __name__ == '__main__':\n    own = LayerNorm(4)\n    own.note = 'mine'\n    print(nn.LayerNorm(4), own)",
    "beside a model of torch's": a_norm(FORMULA)
    + "\n\ndef demo():\n    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))\n    net.last = nn.Linear(4, 4)\n"
    "    return net",
    "with a name that is looked up": a_norm(FORMULA.replace("self.eps", "getattr(self, 'eps', 1e-5)")),
    "with all modules": "from torch.nn import *\n"
    + a_norm(FORMULA).replace("nn.Module", "Module")
    + "\nprint(LayerNorm(4)(torch.ones(2, 4)), BatchNorm1d(4))",
    "with a private helper": a_norm(f"return self._formula(x)\n\n    def _formula(self, x):\n        {FORMULA}"),
    "with a timer": "import functools, time\n\n\ndef timed(f):\n    @functools.wraps(f)\n    def inner(*a):\n"
    "        return f(*a), time.time()\n    return inner\n\n\n"
    + a_norm(FORMULA).replace("    def f", "    @timed\n    def f"),
    "beside a model with any norm": a_norm(FORMULA)
    + "\n\nclass Block(nn.Module):\n    def __init__(self, norm):\n        super().__init__()\n"
    "        self.norm = norm(4)\n\n\n"
    "for kind in (LayerNorm, nn.LayerNorm):\n    print(Block(kind).norm(torch.ones(2, 4)))",
    "timed by timeit": a_norm(FORMULA)
    + "\nimport timeit\nown, theirs, x = LayerNorm(4), nn.LayerNorm(4), torch.ones(2, 4)\n"
    "print(timeit.timeit('own(x)', globals=globals(), number=2), timeit.timeit(lambda: theirs(x), number=2))",
    "tested by unittest": a_norm(FORMULA)
    + "\nimport unittest\n\n\nclass TestNorm(unittest.TestCase):\n    def setUp(self):\n"
    "        self.theirs, self.x = nn.LayerNorm(4), torch.ones(2, 4)\n\n"
    "    def test_same(self):\n        self.assertTrue(torch.allclose(LayerNorm(4)(self.x), self.theirs(self.x)))",
    "with a look at torch's source": a_norm(FORMULA)
    + "\nimport inspect\nprint(inspect.getsource(nn.LayerNorm), dir(nn))",
}


@pytest.mark.parametrize("name", EVASIONS)
def test_the_source_shows_what_does_the_work(name):
    assert forbidden_in("LayerNorm", FORBIDS, [EVASIONS[name]], SET_UP)


def test_what_was_read_of_a_long_submission_is_forgotten():
    """A judge reads thousands of submissions, and what Python makes of a text is far larger than the text."""
    forbidden_in("LayerNorm", FORBIDS, [HONEST["a formula"]])
    assert statements_of.cache_info().currsize > 0
    forbidden_in("LayerNorm", FORBIDS, [HONEST["a formula"], f"data = [{'1, ' * 50_000}]"])
    assert statements_of.cache_info().currsize == words_of.cache_info().currsize == 0


@pytest.mark.parametrize("name", HONEST)
def test_a_formula_of_ones_own_may_stand_beside_torchs(name):
    assert forbidden_in("LayerNorm", FORBIDS, [HONEST[name]], SET_UP) is None


def test_no_module_of_the_course_lends_an_answer_a_norm():
    """Those that use torch's own are back doors; so are those that use these."""
    lending = {name.rpartition(".")[2] for name, module in modules().items() if forbidden_in_text(module.source)}
    assert lending == {"long_range", "position_model"} <= BACK_DOORS
    borrowing = [
        name for name, module in modules().items() if any(f"course_lib.{each}" in module.source for each in lending)
    ]
    assert not borrowing


def forbidden_in_text(source: str) -> bool:
    found = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    return bool(FORBIDS & found)


@pytest.mark.parametrize("module", ["numpy.f2py.__main__", "torch.utils.bottleneck.__main__", "course_lib.__main__"])
def test_no_module_is_imported_into_the_judge_because_a_student_names_it(module):
    """numpy.f2py.__main__ ends the process that imports it."""
    answer = a_norm(FORMULA, before=f"from {module} import *\nnn.LayerNorm(4)\n")
    forbidden_in("LayerNorm", FORBIDS, [answer], SET_UP)
    assert module not in sys.modules


def test_names_out_of_a_module_of_the_course_are_known():
    body = f"show_matrix; {FORMULA}"
    everything = a_norm(body, before="from course_lib.plotting import *\nnn.LayerNorm(4)\n")
    assert forbidden_in("LayerNorm", FORBIDS, [everything], SET_UP) is None
    nothing = a_norm(body, before="nn.LayerNorm(4)\n")
    assert forbidden_in("LayerNorm", FORBIDS, [nothing], SET_UP) == "show_matrix"


def test_a_program_of_very_many_parts_is_not_read():
    """Each is looked at ten times: this would take seconds."""
    honest = a_norm(FORMULA) + "\nnn.LayerNorm(4)\n"
    assert forbidden_in("LayerNorm", FORBIDS, [honest, f"x = {'1 < ' * 200_000}1"], SET_UP) == TOO_MUCH
    assert forbidden_in("LayerNorm", FORBIDS, [honest, f"x = [{'1, ' * 140_000}]"], SET_UP) is None


def test_what_many_statements_reach_is_read_once():
    """Otherwise these would take a minute: each statement hands the answer to the first of a thousand functions."""
    helpers = "".join(f"def h{i}(x):\n    return h{i + 1}(x)\n\n\n" for i in range(1_500))
    source = a_norm(FORMULA) + helpers + "nn.LayerNorm(4)\n" + "h0(LayerNorm)\n" * 1_500
    assert forbidden_in("LayerNorm", FORBIDS, [source], SET_UP) is None


@pytest.mark.parametrize(
    "name",
    [
        "by aten",
        "in a thread",
        "compiled",
        "with the watch switched off",
        "kept in a list",
        "by a pattern",
        "in a very long cell",
        "by a dotted name",
        "bound where nobody sees it",
        "kept below options with values",
    ],
)
def test_the_judge_gives_no_point_for_a_norm_that_hides(name):
    result = judged(STEM, submission(STEM, solutions(STEM) | {"LayerNorm": EVASIONS[name]}))
    norm = by_name(result)["LayerNorm"]
    assert score(norm) == 0
    assert "Write the formula yourself" in norm.message
    assert "I was here" in str(result.notebook)
    others = [e for e in result.verdict.exercises if e.name != "LayerNorm"]
    assert all(score(e) == full(e) for e in others)


@pytest.mark.parametrize(
    "name",
    [
        "compared with torch's",
        "a formula",
        "with a name that stands for torch's elsewhere",
        "tested with gradients",
        "compared with its own parameters",
        "with all modules",
        "beside a model with any norm",
        "timed by timeit",
    ],
)
def test_the_judge_gives_all_points_for_a_formula(name):
    result = judged(STEM, submission(STEM, solutions(STEM) | {"LayerNorm": HONEST[name]}))
    norm = by_name(result)["LayerNorm"]
    assert score(norm) == full(norm), norm.message


# --- what a model remembers ------------------------------------------------------------------------------------------


def points(name: str, answer) -> float:
    return grade(all_exercises()[name], Subject(answer)).points


def step(model, optimizer, source, targets, bos_id, pad_id, max_norm):
    """A right step, except for the mode of the model."""
    optimizer.zero_grad()
    logits = model(source, training.shift_right(targets, bos_id))
    loss = training.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss


def test_a_rewritten_memory_of_the_mode_earns_nothing():
    rewritten = []

    def in_evaluation(*args):
        return step(*args).item()

    def says_in_training(model, *args):
        result = step(model, *args).item()
        for call in model.calls:
            call["training"] = True
            rewritten.append(call)
        return result

    assert points("train_step", says_in_training) == points("train_step", in_evaluation) == 1
    assert rewritten


def test_a_rewritten_memory_of_the_batches_earns_nothing():
    def unshifted(model, batches, bos_id, pad_id):
        model.zero_grad()
        for source, targets in batches:
            training.sequence_loss(model(source, targets), targets, pad_id).backward()
        return 0.0

    def says_shifted(model, batches, bos_id, pad_id):
        result = unshifted(model, batches, bos_id, pad_id)
        for call, (_, targets) in zip(model.calls, batches):
            call["given"] = training.shift_right(targets, bos_id)
        return result

    assert points("accumulate_gradients", says_shifted) == points("accumulate_gradients", unshifted) == 0


def test_memory_is_advice():
    """Only the process in which the code runs knows how many graphs were open. It costs no point, visible or hidden."""
    exercise = all_exercises()["accumulate_gradients"]

    def at_once(model, batches, bos_id, pad_id):
        model.zero_grad()
        counts = [int((targets != pad_id).sum()) for _, targets in batches]
        losses = [
            training.sequence_loss(model(source, training.shift_right(targets, bos_id)), targets, pad_id) * count
            for (source, targets), count in zip(batches, counts)
        ]
        loss = sum(losses) / sum(counts)
        loss.backward()
        return loss.item()

    report = grade(exercise, Subject(at_once))
    assert not report.passed
    assert report.points == report.max_points == exercise.max_points


# --- exemptions ------------------------------------------------------------------------------------------------------


def test_who_changes_an_input_is_not_spared_the_gradients():
    def detached(x, dim):
        return F.softmax(x.detach(), dim)

    def detached_and_changed(x, dim):
        result = F.softmax(x.detach(), dim)
        x.data += 1
        return result

    assert points("softmax", detached_and_changed) <= points("softmax", detached)


class OnlyEven(nn.Module):
    """Positions for an even d_model, and garbage for an odd one."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("table", sinusoidal_encoding(max_len, d_model) * (1 - d_model % 2), persistent=False)

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.dtype)


class WrongWhenProbed(OnlyEven):
    """As if it were another mistake, where the even width beside an odd one is asked."""

    def forward(self, x):
        return super().forward(x) + (x.shape == (1, 2, 4))


class KeepsItElsewhere(OnlyEven):
    """A buffer for show; what is added is kept in a list, which no device watch follows."""

    def __init__(self, d_model, max_len=5000):
        super().__init__(d_model, max_len)
        self.kept = [sinusoidal_encoding(max_len, d_model)]

    def forward(self, x):
        return x + torch.tensor(self.kept[0][: x.shape[1]].tolist(), dtype=x.dtype)


def test_no_width_is_spared():
    assert points("PositionalEncoding", WrongWhenProbed) <= points("PositionalEncoding", OnlyEven) == 5


def test_a_buffer_for_show_is_no_buffer():
    assert points("PositionalEncoding", KeepsItElsewhere) == 3
