import pytest


@pytest.fixture
def write(tmp_path):
    """Write text or bytes to a new file, and return where it is."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
        return path

    return write
