"""Reads what lies inside static archives and object files."""
from pathlib import Path


def members(file):
    """Yields (member name, bytes) of an ar archive; of any other file, (its stem, its bytes)."""
    data = Path(file).read_bytes()
    if not data.startswith(b"!<arch>\n"):
        yield Path(file).stem, data
        return
    names, at = b"", 8
    while at + 60 <= len(data):
        name, size = data[at:at + 16].rstrip(), int(data[at + 48:at + 58])
        content = data[at + 60:at + 60 + size]
        at += 60 + size + size % 2
        if name == b"//":
            names = content  # the table of long names
        elif name not in (b"/", b"/SYM64/"):
            if name[:1] == b"/":
                start = int(name[1:])
                name = names[start:names.index(b"\n", start)]
            yield name.rstrip(b"/").decode(), content
