import io

from neucmds.backend.progress import ProgressBar


def test_it_tells_the_share_ends_its_line_and_can_be_used_again():
    stream = io.StringIO()
    report = ProgressBar("placed", stream, every=0.0)
    assert stream.getvalue() == ""
    report(250, 1000)
    report(1000, 1000)
    report(2, 2)
    for part in ("placed:  25%", "placed: 100%", "/1.00k", "2.00/2.00"):
        assert part in stream.getvalue()
    assert stream.getvalue().endswith("\n")
    assert stream.getvalue().count("\n") == 2
