"""Three tests for pytest to run by the host: of the host itself, of a temporary folder, of captured output."""
import sys


def test_runs_by_the_host():
    import pyhost
    assert pyhost.memory_stats()["schema"] == "pyhost-report/1"


def test_writes_to_a_temporary_folder(tmp_path):
    (tmp_path / "file").write_text("text")
    assert (tmp_path / "file").read_text() == "text"


def test_captures_output(capfd):
    print("out")
    print("err", file=sys.stderr)
    assert capfd.readouterr() == ("out\n", "err\n")
