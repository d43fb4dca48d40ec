"""Words of which stories are drawn."""

TEXT = "the cat saw a dog and ran to its red mat so we sat on top of"
WORDS = tuple(TEXT.split())
