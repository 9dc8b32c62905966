"""Owns the code blocks of a page: language, text, where it stands, and what a comment right before it says of it."""

import dataclasses
import pathlib
import re

BLOCK = re.compile(r"(?:^<!-- (?P<word>[a-z ]+): (?P<said>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    word: str = ""  # "not run", "on", "file" …
    said: str = ""

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """Lines of a shell, those that end with a backslash joined with the next, without comments and the prompt of nobody."""
        joined = self.text.replace("\\\n", " ")
        return [line for line in (each.strip() for each in joined.splitlines()) if line and not line.startswith("#")]


def blocks_of(page, root):
    text = pathlib.Path(page).read_text(encoding="utf-8")
    return [Block(str(pathlib.Path(page).relative_to(root)), text.count("\n", 0, found.start("text")), found["language"], found["text"],
                  found["word"] or "", found["said"] or "") for found in BLOCK.finditer(text)]
