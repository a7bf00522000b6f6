from __future__ import annotations

import io
import subprocess
import sys

from neucmds._backend.progress import progress_bar


def test_it_tells_the_share_ends_its_line_and_can_be_used_again():
    stream = io.StringIO()
    report = progress_bar("placed", stream, every=0.0)
    assert stream.getvalue() == ""
    report(250, 1000)
    report(1000, 1000)
    report(2, 2)
    for part in ("placed:  25%", "placed: 100%", "/1.00k", "2.00/2.00"):
        assert part in stream.getvalue()
    assert stream.getvalue().endswith("\n")
    assert stream.getvalue().count("\n") == 2


def test_tqdm_is_imported_when_it_is_needed():
    code = "import sys, neucmds; sys.exit('tqdm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
