"""Texts with markup and commands, as attackers may put them into names, subjects and branches."""

from __future__ import annotations

from hypothesis import strategies as st

ATTACKS = (
    *(
        "@octocat",
        "#1",
        "GH-1",
        "octo/perf#2",
        "https://evil.example",
        "www.evil.example",
        "[x](javascript:x)",
    ),
    *(
        "<img src=x onerror=alert(1)>",
        "</details>",
        "<script>",
        "&lt;",
        "<!--",
        "-->",
        "![x](https://evil.example)",
    ),
    *("<!-- torchperf:memory {} -->", "\n<!-- torchperf:memory {} -->\n", "\n<!-- /torchperf:table -->\n"),
    *(
        "```",
        "\n```\n",
        "~~~",
        "    code",
        "|",
        "a|b",
        "**",
        "__",
        "`$(x)`",
        "\n\n# title\n",
        "$x$",
        ":tada:",
    ),
    *("\n", "\r\n", "\u2028", "\n::error::pwned", "\x1b[31m", "\u202e", '"', "'", "\\", "--", "0", " "),
    *("%%{init: {}}%%", "x-axis", '" --> ', "{{", "]", "1e9", "\nline [1, 2]\n"),
)

texts = st.lists(st.one_of(st.sampled_from(ATTACKS), st.text(max_size=12)), max_size=6).map("".join)
"""Text of attacks, and of whatever else; half a surrogate pair is refused when a file is read."""
all_at_once = " ".join(ATTACKS)
