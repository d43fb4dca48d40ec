"""All commands in the order of the help, and what ``--help`` shows below the options of each: lines to try.

In this order and in an empty folder all of them work, those of ``choices`` beside tables of these names,
those of ``heads`` beside a model and its text.
"""

EXAMPLES = {
    "example": ("attomaton example story.txt",),
    "learn": (
        "attomaton learn story.txt --window 8 --out run",
        "attomaton learn story.txt --tokenizer character --json",
    ),
    "explain": ('attomaton explain run "the wind saw the lamp and the"',),
    "generate": (
        'attomaton generate run "the wind saw the lamp and the" -n 12 --seed 1',
        'attomaton generate run "the wind saw the lamp and the" --step 20 --learned-from story.txt',
    ),
    "score": (
        "attomaton score run story.txt --window 4 --epsilon 0.1",
        "attomaton score run story.txt --shrink 0.5 --learned-from story.txt",
    ),
    "report": ("attomaton report run -o report.html",),
    "export": ("attomaton export run --graphml graph.graphml --queries the",),
    "diff": (
        "attomaton learn story.txt --window 4 --out shorter",
        "attomaton diff run shorter",
    ),
    "train": ("attomaton train story.txt --window 8 --steps 200 --out run",),
    "verify": ("attomaton verify run",),
    "scan-snap": ("attomaton scan-snap story.txt --window 8",),
    "begin": (
        "attomaton begin story.txt --window 8",
        'attomaton begin story.txt --window 8 --queries "the lamp" --step-size 0.01 --layers 2',
    ),
    "heads": (
        "attomaton heads model story.jsonl --window 8 --length 12 --random 1",
        "attomaton heads model story.jsonl --window 8 --head 0.1 --limit 1",
        "attomaton heads 'steps/checkpoint-*' story.jsonl --window 8 --length 0",
    ),
    "tokenize": ("attomaton tokenize story.txt --out tokens", "attomaton learn tokens --window 8"),
    "reproduce": ("attomaton reproduce mechanics-global --trials 2 --out figure",),
    "choices": (
        "attomaton choices games.csv",
        "attomaton choices matches.csv --winner home --loser guest --count games",
        "attomaton choices battles.jsonl --first model_a --second model_b --outcome winner",
        "attomaton choices menus.csv --winner dish --choice-set menu --split '|'",
        "attomaton choices races.tsv --ranking result --split '>' --prior 1",
    ),
    "doctor": ("attomaton doctor",),
}
"""The name of each command → examples of it."""
