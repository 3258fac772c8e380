"""Which operators a change of PyTorch's sources touches, in a small tree of the same shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_ci.compare.affected import ChangedOperators, changed_operators
from torchperf_ci.compare.pytorch_sources import UnknownEffectError
from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.git import Git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NATIVE = "aten/src/ATen/native"
FUNCTIONS = """
- func: softmax_(Tensor self) -> Tensor
  dispatch: {CPU: softmax_cpu, CUDA: softmax_cuda}
- func: whole(Tensor self) -> Tensor
- func: pow(Tensor self) -> Tensor
  structured_delegate: pow.out
- func: pow.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch: {CPU, CUDA: pow_out}
- func: topk(Tensor self) -> Tensor
  dispatch: {CPU: topk_cpu}
- func: median(Tensor self) -> Tensor
  dispatch: {CPU: median_cpu}
- func: cat(Tensor self) -> Tensor
  dispatch: {CPU: cat_cpu}
- func: stack(Tensor self) -> Tensor
  dispatch: {CPU: stack_cpu}
- func: sort(Tensor self, SymInt k) -> Tensor
  dispatch: {CPU: sort_cpu}
- func: size(Tensor self) -> Tensor
  dispatch: {CPU: size_cpu}
""".replace("{CPU, CUDA: pow_out}", "{CPU: pow_out, CUDA: pow_out}")


def kernel(stub: str) -> str:
    return f"""
    #include <ATen/native/Loops.h>
    namespace at {{ namespace native {{
    namespace {{
    template <typename T> struct Op {{ T run(T x) {{ return x; }} }};
    constexpr int64_t GRAIN = 3;
    template <typename T> inline void each(T x) {{ Op<T>().run(x); }}
    template <> inline void each<float>(float x) {{}}
    void {stub}_kernel(TensorIterator& iter) {{ each<int>('{{'); /* }} */ TORCH_CHECK("}}"); }}
    }} // anonymous namespace
    REGISTER_DISPATCH({stub}_stub, &{stub}_kernel);
    }}}} // namespace at::native
    """


def calling(function: str, body: str, local: str = "") -> str:
    return f"namespace at::native {{\n{local} Tensor {function}(const Tensor& self, int k) {{ {body} }}\n}}\n"


FILES = {
    "README.md": "",
    "test/test_it.py": "",
    "setup.py": "",
    "aten/src/ATen/core/dispatch/ObservedOperators.cpp": 'static names = { "aten::size" };',
    f"{NATIVE}/native_functions.yaml": FUNCTIONS,
    f"{NATIVE}/Loops.h": "namespace at::native { inline void loop(int n) {} }",
    f"{NATIVE}/Softmax.h": "namespace at::native { DECLARE_DISPATCH(void (*)(TensorIterator&), softmax_stub); }",
    f"{NATIVE}/cpu/SoftmaxKernel.cpp": kernel("softmax"),
    f"{NATIVE}/Softmax.cpp": "namespace at::native { DEFINE_DISPATCH(softmax_stub);\n"
    "static void run(TensorIterator& it) { softmax_stub(kCPU, it); }\n"
    "Tensor softmax_cpu(const Tensor& self) { run(it); at::whole(self); self.pow(2); return self; } }",
    f"{NATIVE}/cpu/PowKernel.cpp": kernel("pow"),
    f"{NATIVE}/Pow.cpp": "namespace at::native { TORCH_IMPL_FUNC(pow_out)(const Tensor& x) { pow_stub(kCPU, x); } }",
    f"{NATIVE}/cpu/TopKKernel.cpp": kernel("topk"),
    f"{NATIVE}/TopK.cpp": calling("topk_cpu", "topk_stub(kCPU, self); return self;"),
    f"{NATIVE}/Median.cpp": calling("median_cpu", "return topk_cpu(self, 1);"),
    f"{NATIVE}/cpu/SizeKernel.cpp": kernel("size"),
    f"{NATIVE}/Size.cpp": calling("size_cpu", "size_stub(kCPU, self);"),
    f"{NATIVE}/cpu/PastedKernel.cpp": kernel("pasted"),
    f"{NATIVE}/Pasted.cpp": "#define RUN(op) op##_stub(kCPU)\n" + calling("cat_cpu", "RUN(pasted);"),
    f"{NATIVE}/cpu/InClassKernel.cpp": kernel("in_class"),
    f"{NATIVE}/InClass.cpp": "struct Runner { void run() { in_class_stub(kCPU); } };",
    f"{NATIVE}/cpu/InMacroKernel.cpp": kernel("in_macro"),
    f"{NATIVE}/InMacro.h": "#define RUN_IT in_macro_stub(kCPU)",
    f"{NATIVE}/cpu/UncalledKernel.cpp": kernel("uncalled"),
    f"{NATIVE}/cpu/GeneratedKernel.cpp": kernel("generated"),
    "torchgen/gen.py": "print('generated_stub(kCPU);')",
    f"{NATIVE}/Formula.cpp": calling("topk_cpu", "return self;") + calling("formula", "return self;"),
    "tools/autograd/derivatives.yaml": "- name: topk(Tensor self) -> Tensor\n  self: at::native::formula(grad, 1)",
    f"{NATIVE}/Status.cpp": calling("topk_cpu", "return self;") + "enum status run(int n) { return ok; }",
    f"{NATIVE}/Constructs.cpp": calling("topk_cpu", "return self;") + "static const Registrar registrar;",
    f"{NATIVE}/cpu/StackKernel.cpp": kernel("stack"),
    f"{NATIVE}/Stack.cpp": calling("stack_cpu", "stack_stub(kCPU, self);"),
    "torch/csrc/direct.cpp": "void direct() { at::cpu::stack(x); }",
    f"{NATIVE}/Sort.cpp": calling("sort_cpu", "return self;"),
    "torch/csrc/sizes.cpp": "void sizes() { at::cpu::sort_symint_outf(x, k, out); }",
    f"{NATIVE}/Registers.cpp": "static auto registry = torch::RegisterOperators().op();",
    f"{NATIVE}/Vexing.cpp": "namespace { void f(int x) {} static Registrar registrar(f); }",
    f"{NATIVE}/Odd.cpp": "#if A\nvoid odd() {\n#else\nvoid odd(int x) {\n#endif\n}",
    f"{NATIVE}/Included.cpp": calling("included", "return self;"),
    f"{NATIVE}/Includes.cpp": '#include "Included.cpp"\n',
    f"{NATIVE}/mps/Pow.mm": "static int x = pow_stub();",
    f"{NATIVE}/cuda/Softmax.cu": calling("softmax_cuda", "return self;"),
    f"{NATIVE}/cuda/Shared.cuh": "",
    f"{NATIVE}/UsesShared.cpp": "#include <ATen/native/cuda/Shared.cuh>\n",
}


@pytest.fixture
def touched(tmp_path: Path, git: Callable[..., str]) -> Callable[..., ChangedOperators]:
    """What a commit touches that adds a line to these files, on a build for the CPU."""
    git(tmp_path, "init", "--quiet")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def commit() -> Revision:
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", "A change")
        return Revision(tmp_path, git(tmp_path, "rev-parse", "HEAD").strip(), "")

    base = commit()

    def changed(*names: str, added: str = "\n") -> ChangedOperators:
        for name in names:
            (tmp_path / name).write_text(FILES[name] + added)
        return changed_operators(Git(tmp_path, Deadline.after(60)), base, commit(), names, ("cuda", "mps"))

    return changed


@pytest.mark.parametrize(
    ("names", "operators"),
    [
        (("cpu/SoftmaxKernel.cpp",), {"softmax_"}),
        (("Softmax.cpp",), {"softmax_"}),
        (("cpu/PowKernel.cpp",), {"pow"}),
        (("cpu/TopKKernel.cpp",), {"topk", "median"}),
        (("cpu/TopKKernel.cpp", "cpu/PowKernel.cpp"), {"topk", "median", "pow"}),
        (("mps/Pow.mm", "cuda/Softmax.cu"), set()),
    ],
    ids=[
        "stub behind a static function",
        "function",
        "structured",
        "call past the dispatcher",
        "two",
        "unbuilt",
    ],
)
def test_a_kernel_touches_the_operators_that_can_run_it(
    touched: Callable[..., ChangedOperators], names: tuple[str, ...], operators: set[str]
) -> None:
    changed = touched(*(f"{NATIVE}/{name}" for name in names), "README.md", "test/test_it.py")
    assert changed.operators == operators
    assert {*changed.python} == {"README.md", "test/test_it.py"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (f"{NATIVE}/Loops.h", "what is built from it is unknown"),
        (f"{NATIVE}/native_functions.yaml", "what is built from it is unknown"),
        ("setup.py", "what is built from it is unknown"),
        (f"{NATIVE}/cpu/SizeKernel.cpp", "calls of size are not recorded"),
        (f"{NATIVE}/cpu/PastedKernel.cpp", "Pasted.cpp assembles pasted_stub"),
        (f"{NATIVE}/cpu/InClassKernel.cpp", "InClass.cpp mentions in_class_stub in struct Runner"),
        (f"{NATIVE}/cpu/InMacroKernel.cpp", "InMacro.h mentions in_macro_stub"),
        (f"{NATIVE}/cpu/UncalledKernel.cpp", "no operator is known"),
        (f"{NATIVE}/cpu/GeneratedKernel.cpp", "torchgen/gen.py writes C"),
        (f"{NATIVE}/cpu/StackKernel.cpp", "torch/csrc/direct.cpp calls stack without the dispatcher"),
        (f"{NATIVE}/Sort.cpp", "torch/csrc/sizes.cpp calls sort without the dispatcher"),
        (f"{NATIVE}/Registers.cpp", "exposes to other files: static auto registry"),
        (f"{NATIVE}/Formula.cpp", "tools/autograd/derivatives.yaml writes C"),
        (f"{NATIVE}/Status.cpp", "exposes to other files: enum status run"),
        (f"{NATIVE}/Constructs.cpp", "exposes to other files: static const Registrar"),
        (f"{NATIVE}/Vexing.cpp", "exposes to other files: static Registrar"),
        (f"{NATIVE}/Odd.cpp", "Odd.cpp is not understood"),
        (f"{NATIVE}/Included.cpp", "is included by another file"),
        (f"{NATIVE}/cuda/Shared.cuh", "may be included by what is built"),
    ],
)
def test_whatever_else_may_run_it_is_told_and_touches_everything(
    touched: Callable[..., ChangedOperators], name: str, why: str
) -> None:
    with pytest.raises(UnknownEffectError) as unknown:
        touched(name)
    assert why in str(unknown.value)


def test_every_file_has_to_be_known_to_be_run_by_an_operator(
    touched: Callable[..., ChangedOperators],
) -> None:
    with pytest.raises(UnknownEffectError, match="no operator is known to run the code of "):
        touched(f"{NATIVE}/cpu/PowKernel.cpp", f"{NATIVE}/cpu/UncalledKernel.cpp")


def test_what_head_adds_counts_too(touched: Callable[..., ChangedOperators]) -> None:
    more = "namespace at::native { REGISTER_DISPATCH(topk_stub, &other); }"
    assert touched(f"{NATIVE}/cpu/PowKernel.cpp", added=more).operators == {"pow", "topk", "median"}
