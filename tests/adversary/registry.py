"""Every target by name."""

from tests.adversary import (
    beginning,
    bounds,
    causal,
    choices,
    choices_features,
    choices_games,
    choices_ties,
    clusters,
    configurations,
    corpora,
    decoders,
    embedded,
    factored,
    finite_part,
    generation,
    gradients,
    hard,
    kneser_ney,
    ladder,
    large,
    limits,
    margins,
    norms,
    prediction,
    runs,
    scansnap,
    seeking,
    separation_offsets,
    shrinkage,
    trajectories,
    utility,
    verdicts,
    writing,
)
from tests.adversary.finding import Target

COVERED = 0.001
"""The share of runs whose error may be above its estimate."""

TARGETS = {
    "hard-orthonormal": Target("scores and ‖W‖² to rounding, against fractions", hard.attack, 300),
    "hard-chains": Target("chains with ties of 600 to 10⁵ tokens, exact", hard.attack_chain, 8),
    "hard-weights": Target("orders with weights to 10⁹, proved again", hard.attack_order, 40),
    "hard-embedded": Target(
        "certified bounds hold ‖W‖²; scores and margins", embedded.attack, 200, least_judged=0.75, patience=5
    ),
    "hard-embedded-large": Target(
        "chains of up to 601 tokens, rows of unequal lengths", large.attack, 12, least_judged=0.4
    ),
    "separation": Target(  # two draws in six have more nodes than are decided
        "what embeddings cannot meet, to 4,000 nodes", limits.attack, 8, least_judged=0.4
    ),
    "hard-factored": Target("bounds of the least nuclear norm", factored.attack, 30),
    "norms": Target(
        "bounds of the least max, spectral and nuclear norm", norms.attack, 30, least_judged=0.75
    ),
    "soft": Target("scores within their proven bound", choices.attack_soft, 150),
    "soft-embedded": Target("W_fin with embeddings, also dependent ones", finite_part.attack, 100),
    "choices": Target("fits, errors, order, probabilities; counts to 10¹²", choices.attack, 150),
    "decoder-onehot": Target(
        "probabilities, loss, excess and weights at any step", decoders.attack_one_hot, 12
    ),
    "decoder-features": Target(
        "separability, ‖W^mm‖², loss and probabilities", decoders.attack_features, 20, least_judged=0.8
    ),
    "choices-ties": Target("ties as half wins: errors, ranks, no scores", choices_ties.attack, 25),
    "choices-features": Target(
        "pairs, ranks and contrasts of choices with features, in fractions", choices_features.attack, 200
    ),
    "choices-games": Target(
        "games on their graph, against fractions and a plain fit", choices_games.attack, 600, least_judged=0.8
    ),
    "choices-features-near": Target(
        "nothing certified is wrong at gaps of 10⁻³ to 10⁻¹²",
        choices_features.attack_ladder,
        60,
        least_judged=0.5,
    ),
    "bounds": Target(
        "the data have 1 − level at the bound: pairs, sets, rankings, features",
        bounds.attack,
        40,
        least_judged=0.7,
    ),
    "bounds-best-worst": Target(
        "the same for best and worst", bounds.attack_best_worst, 20, least_judged=0.8
    ),
    "clusters": Target("CR2 and its degrees of freedom by definition", clusters.attack, 40, least_judged=0.5),
    "clusters-coverage": Target(
        "95 % intervals of equal items hold 0",
        clusters.attack_coverage,
        80,
        share_above_one=0.05,
        least_judged=0.5,
    ),
    "separation-offsets": Target(
        "logistic regressions with offsets to 4·10¹⁵ and overlaps to 10⁻⁹, in fractions",
        separation_offsets.attack,
        150,
    ),
    "prediction": Target("probabilities, attention, rules by definition", prediction.attack, 120),
    "scores": Target("log-loss, top-1 and shares by definition", prediction.attack_scores, 100),
    "robustness": Target("bridges and support by removal", corpora.attack_robustness, 200),
    "coverage": Target("the coverage report by definition", corpora.attack_coverage, 150),
    "diff": Target("every changed pair and no other", corpora.attack_diff, 80),
    "runs": Target("parts on disk as in memory and by definition", runs.attack, 6),
    "shrink": Target("the minimiser of the penalised loss", shrinkage.attack, 100),
    "fast-forward": Target(
        "error_at covers descent (≤ 2 ×, above in ≤ 0.1 %)",
        trajectories.attack_fast_forward,
        24,
        share_above_one=COVERED,
        least_judged=0.5,
        patience=5,
    ),
    "expansion": Target(
        "error_at covers descent (≤ 2 ×, above in ≤ 0.1 %)",
        trajectories.attack_expansion,
        30,
        share_above_one=COVERED,
        least_judged=0.25,
        patience=3,
    ),
    "gradients": Target("heads × losses × W or K Qᵀ; Hessians", gradients.attack_heads, 70),
    "gradients-settled": Target("small gradients keep their digits", gradients.attack_saturated, 100),
    "parametrisations": Target("dense, per query, shared, factored", gradients.attack_parametrisations, 150),
    "training": Target("steps of every kind are those of PyTorch", gradients.attack_training, 60),
    "kneser-ney": Target("laws by plain dictionaries, to 50,000 tokens", kneser_ney.attack, 60),
    "flow": Target("Y, Z and loss along the flow", scansnap.attack_flow, 30),
    "law": Target("growth, gain, turn and snap", scansnap.attack_law, 8),
    "survey": Target("classes, forecasts and what is kept", scansnap.attack_survey, 40),
    "margins": Target(
        "margins: sound runs never fail, broken never hold", margins.attack, 6, least_judged=0.5, patience=2
    ),
    "ladder": Target("explained shares by another optimiser", ladder.attack, 20),
    "ladder-leakage": Target(  # texts of two or three tokens are refused now and then
        "scored documents change no fit; no copies", ladder.attack_leakage, 3, least_judged=0.3
    ),
    "configurations": Target(
        "read as transformers reads them, or refused", configurations.attack, 80, least_judged=0.5
    ),
    "causal": Target("mean patterns and outputs in another forward pass", causal.attack, 20),
    "utility": Target("−∂loss/∂a by autograd of another forward pass", utility.attack_measured, 25),
    "utility-closed": Target("the closed form at the mean field", utility.attack_closed, 40),
    "winners": Target(
        "certified limits attract; seconds for six tokens", generation.attack_winners, 6, least_judged=0.5
    ),
    "loops": Target("loops, probabilities and steps of a window", generation.attack_loops, 150),
    "writing": Target("probabilities, successors, scores over keys", writing.attack, 30, least_judged=0.4),
    "beginning": Target(
        "statistics exact; first weights of autograd", beginning.attack, 30, least_judged=0.5
    ),
    "seeking": Target(
        "excess by definition; seekers found, none else (≤ 5 %)",
        seeking.attack,
        10,
        share_above_one=0.05,
    ),
    "verdicts": Target("sound runs: nothing fails", verdicts.attack, 3, patience=3),
}
"""The gate's number of trials is the third argument of each."""
