"""Virtual environments that share one pip, that of the tests' own environment: to install one takes seconds."""

from __future__ import annotations

from pathlib import Path

import pip

_PROGRAM = """\
#!/bin/sh
python=$1
shift
case "$*" in
  *" --without-pip"*) exec "$python" "$@" ;;
  "-m venv "* | "-I -m venv "*) ;;
  *) exec "$python" "$@" ;;
esac
"$python" "$@" --without-pip || exit
for venv; do :; done
cd "$venv" || exit
for site in lib/python*/site-packages; do echo "{folder}" >"$site/pip.pth"; done
printf '#!/bin/sh\\nexec "%s/bin/python" -m pip "$@"\\n' "$PWD" >bin/pip
chmod +x bin/pip
"""


def link_pip(folder: Path) -> Path:
    """Make a program in ``folder`` that runs ``PYTHON ARGUMENTS...``; what ``-m venv VENV`` would install is linked."""
    for part in Path(pip.__file__).parents[1].glob("pip*"):
        (folder / part.name).symlink_to(part)
    program = folder / "linked"
    program.write_text(_PROGRAM.format(folder=folder))
    program.chmod(0o755)
    return program
