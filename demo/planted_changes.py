"""Changes to ``smallnet/smallnet/model.py`` that make it slower, or faster, and leave what it computes as it is.

On one thread of a server's CPU, where a step of ``smallnet/classifier`` takes 2.5 ms, they made it slower by about

    sync(4)  4%     validation(1)  2%         lost_fusion()  10%          quadratic()   50%
    sync(2)  7%     validation(2)  5%         copy()         10 to 20%    faster()     -10%
    sync(1)  12%    validation(4)  10 to 20%

and ``validation`` made ``smallnet/bags`` slower by 17% a time. Other machines differ.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """A commit that puts ``after`` in the place of ``before``."""

    subject: str
    before: str
    after: str

    def applied_to(self, text: str) -> str:
        """``text`` with the edit; raises :class:`ValueError` where that is not clear."""
        if text.count(self.before) != 1:
            msg = f"{self.subject!r} does not fit: {self.before!r} is there {text.count(self.before)} times"
            raise ValueError(msg)
        return text.replace(self.before, self.after)


class Revert:
    """A commit that takes the last edit back which was not taken back yet."""


Change = Edit | Revert


def sync(every: int = 1) -> Edit:
    """Wait for the device after each ``every``-th block, for a check of its output."""
    return Edit(
        "Stop at the first value that is not a number",
        "        for block in self.blocks:\n            rows = block(rows)\n",
        "        for number, block in enumerate(self.blocks):\n"
        "            rows = block(rows)\n"
        f"            if number % {every} == 0 and torch.isnan(rows).any().item():\n"
        '                msg = f"block {number} gives values that are not numbers"\n'
        "                raise ValueError(msg)\n",
    )


def lost_fusion() -> Edit:
    """Tear the fused product and sum of each block into a product, a copy and a sum."""
    return Edit(
        "Multiply from the left, as the paper does",
        "torch.addmm(self.bias, normed, self.weight)",
        "(self.weight.t() @ normed.t()).t().contiguous() + self.bias",
    )


def validation(times: int = 1) -> Edit:
    """Check the words ``times`` more, as PyTorch once did: https://github.com/pytorch/pytorch/pull/67741."""
    return Edit(
        "Validate what is looked up",
        "        check(words)\n",
        "        check(words)\n" * (1 + times),
    )


def quadratic() -> Edit:
    """Take time that grows with the square of the number of rows for what a cumulative sum does."""
    return Edit(
        "Write the running mean as attention that is spread evenly",
        "    counts = torch.arange(1, len(rows) + 1, device=rows.device, dtype=rows.dtype).unsqueeze(1)\n"
        "    return rows.cumsum(0) / counts\n",
        "    alike = rows.new_zeros(1, len(rows), 1)\n"
        "    return functional.scaled_dot_product_attention(alike, alike, rows[None], is_causal=True)[0]\n",
    )


def copy() -> Edit:
    """Copy the input of each block into another order."""
    return Edit(
        "Keep rows in column order",
        "        normed =",
        "        rows = rows.t().contiguous().t()\n        normed =",
    )


def faster() -> Edit:
    """Make one kernel of several: an improvement."""
    return Edit(
        "Use PyTorch's own GELU",
        "    return 0.5 * rows * (1 + torch.erf(rows / 2**0.5))\n",
        "    return functional.gelu(rows)\n",
    )
