import io

from neucmds.backend.progress import ProgressBar


def test_it_tells_the_share_ends_its_line_and_can_be_used_again():
    stream = io.StringIO()
    heard = []
    report = ProgressBar(lambda *told: heard.append(told), stream)
    assert stream.getvalue() == ""
    report(0, None, "reading")
    report(250, 1000, "placed")
    report(1000, 1000, "placed")
    report(2, 2, 0.5)
    for part in ("reading\n", "placed: 100%", "/1.00k", "refined: 100%"):
        assert part in stream.getvalue()
    assert stream.getvalue().endswith("\n")
    assert stream.getvalue().count("\n") == 3
    assert heard[0] == (0, None, "reading")
    assert heard[-1] == (2, 2, 0.5)
