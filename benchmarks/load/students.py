"""What one student does: open a lesson and its live parts, click numbers, type sentences, sometimes learn.

Run by Locust (`python -m benchmarks.load` calls it). 429 and 503 with Retry-After are the server's own word that it has
enough to do: they are counted, waited for, and no failure. Everything else that is not a page is one.
"""

from __future__ import annotations

import random
import re
from html import unescape

from locust import HttpUser, between, task

NAMES = ["Mary", "John", "Tom", "Lily", "Sue", "Ben", "Max", "Anna", "Sam", "Lucy", "Tim", "Mia", "Bob", "Jane"]
THINGS = ["drink", "book", "ball", "cake", "key", "hat", "pen", "toy"]
SITES = (
    "logits[{t},{v}]", "blocks.0.attn.pattern[1,{t},0]", "blocks.1.mlp.post[{t},5]", "blocks.2.ln1.out[{t},7]",
    "blocks.3.attn.z[{t},1,3]", "probs[{t},{v}]", "loss", "blocks.1.resid_post[{t},9].grad", "W_E[{v},3].grad",
)  # fmt: skip
TOLD_TO_WAIT = "told to come back"
LINK = re.compile(r'href="(/explore\?[^"#]*)"')
PART = re.compile(r'data-hx-get="(/embed/[^"]*)"')


class Student(HttpUser):
    """Reads, clicks, tries: a request every one to five seconds."""

    wait_time = between(1, 5)

    def on_start(self) -> None:
        self.random = random.Random()
        address = ".".join(str(self.random.randint(1, 254)) for _ in range(4))
        self.client.headers["X-Forwarded-For"] = address  # each at a machine of their own, as a proxy would tell

    def look(self, url: str, name: str) -> str:
        """The page at a URL; "" where the server asked to come later."""
        with self.client.get(url, name=name, catch_response=True) as answer:
            if answer.status_code in (429, 503) and "Retry-After" in answer.headers:
                answer.request_meta["name"] = TOLD_TO_WAIT
                answer.success()
                return ""
            if answer.status_code != 200:
                answer.failure(f"status {answer.status_code}")
                return ""
            return answer.text or ""

    def a_sentence(self) -> str:
        one, other = self.random.sample(NAMES, 2)
        return f"When {one} and {other} went to the store, {one} gave a {self.random.choice(THINGS)} to"

    def an_address(self) -> str:
        return self.random.choice(SITES).format(t=self.random.randint(1, 10), v=self.random.randint(0, 2000))

    @task(4)
    def lesson(self) -> None:
        """A lesson and two of its live parts, as they come into view."""
        which = self.random.choice(("transformer", "math"))
        page = self.look(f"/lessons/{which}", "lesson")
        for url in self.random.sample(parts := PART.findall(page), min(2, len(parts))):
            self.look(unescape(url), "live part")

    @task(6)
    def explore(self) -> None:
        """The explorer, then clicks from number to number."""
        page = self.look("/explore", "explorer")
        for _ in range(3):
            links = LINK.findall(page)
            if not links:
                return
            page = self.look(unescape(self.random.choice(links)), "click")

    @task(4)
    def new_sentence(self) -> None:
        """A sentence of one's own, and a number in it."""
        text = self.a_sentence().replace(" ", "%20")
        self.look(f"/explore?text={text}", "new sentence")
        self.look(f"/explore?text={text}&at={self.an_address()}", "a number in it")

    @task(4)
    def explain(self) -> None:
        """What a program asks."""
        self.look(f"/api/v1/explain?at={self.an_address()}", "JSON explanation")

    @task(1)
    def generate(self) -> None:
        """Let the model go on."""
        self.look(f"/generate?text={self.a_sentence().replace(' ', '%20')}", "generate")

    @task(1)
    def learn(self) -> None:
        """A few learning steps on a sentence of one's own."""
        text = self.a_sentence().replace(" ", "%20")
        self.look(f"/learn?text={text}&steps={self.random.choice((1, 3, 10))}", "learn")
