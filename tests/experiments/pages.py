"""A page as tests look at it."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "link", "input", "wbr"}


class Checked(HTMLParser):
    """Every tag that is opened is closed; collects ids, pictures and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.pictures, self.words = [], set(), [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id"))
        if tag == "img":
            self.pictures.append(found["src"])
        assert tag != "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())
