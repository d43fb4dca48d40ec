"""Plain text: the file is one document, or each line is."""

from collections.abc import Iterator
from dataclasses import dataclass

from attomaton.errors import UnreadableSource
from attomaton.readers.batches import Skips, TextBatch, batch_texts, too_long
from attomaton.readers.files import FileReader, decode, naming, read_lines


@dataclass(frozen=True)
class TextReader(FileReader):
    """A UTF-8 ``.txt`` file."""

    def batches(self) -> Iterator[TextBatch]:
        """The documents; rows are line numbers from 1."""
        skips = Skips(self.reading)
        documents = self._whole(skips) if self.reading.documents == "file" else self._lines(skips)
        yield from batch_texts(documents, skips)

    def _whole(self, skips: Skips) -> Iterator[tuple[int, str]]:
        with naming(self.source), self.file.open() as file:
            content = file.read(self.reading.max_bytes + 1)
        try:
            if len(content) > self.reading.max_bytes:
                advice = "read each line as a document (documents='line'), split it into files"
                raise too_long(self.source, self.reading, advice=advice)
            text = decode(content.removeprefix(b"\xef\xbb\xbf"), self.source)
        except UnreadableSource as error:
            skips.add(error)
            return
        if text:
            yield 1, text.replace("\r\n", "\n").replace("\r", "\n")

    def _lines(self, skips: Skips) -> Iterator[tuple[int, str]]:
        number = 0
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                place = f"{self.source}, line {number},"
                try:
                    if line is None:
                        raise too_long(place, self.reading, advice="break it into lines")
                    text = decode(line, place)
                except UnreadableSource as error:
                    skips.add(error)
                else:
                    yield number, text
