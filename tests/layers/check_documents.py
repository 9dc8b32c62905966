# Owns the check that what documents point at exists: relative links of every Markdown page, headings included.
import re
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SKIPPED = {"build", ".venv", ".git"}


def anchors(text):
    headings = re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(root):
    for page in sorted(root.rglob("*.md")):
        if SKIPPED & set(page.relative_to(root).parts):
            continue
        text = page.read_text(encoding="utf-8")
        for link in LINK.findall(re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            path = page.parent / target if target else page
            if not path.exists():
                yield f"{page.relative_to(root)}: {link}: no such file"
            elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
                yield f"{page.relative_to(root)}: {link}: no such heading"


def main():
    found = list(broken_links(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found) if found else "every link of the documents leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
