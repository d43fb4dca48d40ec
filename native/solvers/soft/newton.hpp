// Newton's method for anchored Luce problems: each group of alternatives is solved separately.
//
// The function is  Σ count · (−ln p(winner)) + ½ r Σ_j (s_j − a_j)²  over the alternatives of one group.
#pragma once
#include "base/arrays.hpp"

namespace attomaton::soft {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double EPSILON = std::numeric_limits<double>::epsilon();

constexpr int MAX_TURNS = 2000;   // conjugate-gradient iterations for one Newton step
constexpr double WIDE = 500.0;    // exponentials of scores that differ by less are well within the range of float64
constexpr int N_GUESSES = 2;      // minorise-maximise steps before Newton's, if nothing anchors the scores
constexpr double CLOSEST = 1e-5;  // largest useful reduction of the residual: beyond it, another Newton step is better
constexpr Int STRETCH = 1024;     // least number of choices whose gradient is summed apart
constexpr double STEADY = 0.1;    // a step whose entries differ by less leaves the curvature's diagonal nearly as it was
constexpr int MAX_STALLS = 3;     // Newton steps that may exhaust their iterations before the group is abandoned
constexpr double FAR = 1e4;       // a group that ends with a gradient this many times the tolerance has stalled

// Choices sorted by group; the alternatives of a group are consecutive numbers.
struct Choices {
    In<Int32> alternative;  // the members of all choice sets
    In<Int> offsets;        // where the members of each choice begin, and where the last ones end
    In<Int32> multiplicity; // of each member
    In<Int32> winner;       // of each choice
    In<double> count;       // of each choice
};

// The alternatives and choices of one group; a node is an alternative, numbered from 0 in the group.
struct Group {
    Choices choices;
    Int first, size;               // its alternatives
    Int first_choice, last_choice; // its choices; the last one is not included

    Int first_entry() const { return choices.offsets[first_choice]; }
    Int n_entries() const { return choices.offsets[last_choice] - first_entry(); }
    double count(Int choice) const { return choices.count[choice]; }
    Int winner(Int choice) const { return choices.winner[choice] - first; }
    Int node(Int32 alternative) const { return alternative - first; }
    In<Int32> members(Int choice) const { return of_choice(choices.alternative, choice, 0); }
    In<Int32> times(Int choice) const { return of_choice(choices.multiplicity, choice, 0); }
    Out<double> shares(Int choice, Out<double> probability) const {
        return of_choice(probability, choice, first_entry());
    }

  private:
    template <class T> View<T> of_choice(View<T> entries, Int choice, Int base) const {
        return entries.slice(choices.offsets[choice] - base, choices.offsets[choice + 1] - base);
    }
};

// A Luce problem with the alternatives and choices of each group stored contiguously.
struct Groups {
    Choices choices;
    In<Int> borders, choice_borders; // where the alternatives and the choices of each group begin and end

    Group operator[](Int group) const {
        return {choices, borders[group], borders[group + 1] - borders[group], choice_borders[group],
                choice_borders[group + 1]};
    }
};

// Work arrays of one group: a number for each member of its choice sets, and else for each node.
struct Space {
    Out<double> probability, gradient, diagonal, residual, scaled, direction, bent, step;
};

// Memory for the largest of some groups.
class Room {
    Array<double> entries, nodes[7];

  public:
    Room(const Groups &groups, In<Int> chosen) {
        Int n_nodes = 0, n_entries = 0;
        for (const Int number : chosen) {
            const Group group = groups[number];
            n_nodes = std::max(n_nodes, group.size);
            n_entries = std::max(n_entries, group.n_entries());
        }
        entries = Array<double>(n_entries);
        for (auto &values : nodes) values = Array<double>(n_nodes);
    }
    Space of(const Group &group) const {
        const auto values = [&](int number) { return nodes[number].slice(0, group.size); };
        return {entries.slice(0, group.n_entries()), values(0), values(1), values(2), values(3), values(4),
                values(5), values(6)};
    }
};

// e^s up to a factor, into `power`; false, and nothing done, where they may not fit float64.
inline bool find_powers(In<double> scores, Out<double> power) {
    double lowest = INFINITE, highest = -INFINITE;
    for (const double score : scores) {
        lowest = std::min(lowest, score);
        highest = std::max(highest, score);
    }
    if (highest - lowest >= WIDE) return false;
    for (Int node = 0; node < scores.size; ++node) power[node] = std::exp(scores[node] - highest);
    return true;
}

// m e^s for each member of each set, up to a factor for each set, into `probability`.
inline void find_odds(const Group &group, In<double> scores, Out<double> probability) {
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice) {
        const In<Int32> members = group.members(choice), times = group.times(choice);
        const Out<double> odds = group.shares(choice, probability);
        double highest = -INFINITE;
        for (Int entry = 0; entry < members.size; ++entry) {
            odds[entry] = scores[group.node(members[entry])] + std::log(double(times[entry]));
            highest = std::max(highest, odds[entry]);
        }
        for (double &odd : odds) odd = std::exp(odd - highest);
    }
}

// Probabilities of all members of all sets, and the gradient of the summed loss.
//
// A winner's 1 − p is computed as the sum of the losers' probabilities, so that no digits are lost. Choices are
// sorted by winner, so an entry of the gradient rises to the number of expected wins before it falls. Stretches
// of choices are summed apart, in `space.bent`: few additions round off digits of the large sum.
inline void weigh(const Group &group, In<double> scores, const Space &space) {
    const Out<double> gradient = space.gradient, recent = space.bent, power = space.scaled;
    std::fill(gradient.begin(), gradient.end(), 0.0);
    std::fill(recent.begin(), recent.end(), 0.0);
    const bool narrow = find_powers(scores, power);
    if (!narrow) find_odds(group, scores, space.probability);
    const Int stretch = std::max(group.size, STRETCH);
    for (Int start = group.first_choice; start < group.last_choice; start += stretch) {
        for (Int choice = start; choice < std::min(start + stretch, group.last_choice); ++choice) {
            const In<Int32> members = group.members(choice), times = group.times(choice);
            const Out<double> shares = group.shares(choice, space.probability);
            double total = 0.0;
            for (Int entry = 0; entry < members.size; ++entry) {
                if (narrow) shares[entry] = power[group.node(members[entry])] * times[entry];
                total += shares[entry];
            }
            const Int winner = group.winner(choice);
            const double count = group.count(choice), whole = 1.0 / total;
            double lost = 0.0;
            for (Int entry = 0; entry < members.size; ++entry) {
                const Int node = group.node(members[entry]);
                shares[entry] *= whole;
                if (node == winner) continue;
                recent[node] += count * shares[entry];
                lost += shares[entry];
            }
            recent[winner] -= count * lost;
        }
        for (Int node = 0; node < group.size; ++node) {
            gradient[node] += recent[node];
            recent[node] = 0.0;
        }
    }
}

// Curvature of the summed loss along `space.direction`, into `space.bent`.
//
// Differences are relative to the winner, so that nothing cancels if its probability is close to 1.
inline void bend(const Group &group, const Space &space) {
    const Out<double> direction = space.direction, bent = space.bent;
    std::fill(bent.begin(), bent.end(), 0.0);
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice) {
        const In<Int32> members = group.members(choice);
        const Out<double> shares = group.shares(choice, space.probability);
        const double count = group.count(choice), here = direction[group.winner(choice)];
        double mean = 0.0;
        for (Int entry = 0; entry < members.size; ++entry)
            mean += shares[entry] * (direction[group.node(members[entry])] - here);
        for (Int entry = 0; entry < members.size; ++entry) {
            const Int node = group.node(members[entry]);
            bent[node] += count * shares[entry] * (direction[node] - here - mean);
        }
    }
}

// The diagonal of the curvature, into `space.diagonal`.
inline void find_diagonal(const Group &group, const Space &space) {
    const Out<double> diagonal = space.diagonal;
    std::fill(diagonal.begin(), diagonal.end(), 0.0);
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice) {
        const In<Int32> members = group.members(choice);
        const Out<double> shares = group.shares(choice, space.probability);
        const Int winner = group.winner(choice);
        const double count = group.count(choice);
        double lost = 0.0, won = 0.0;
        for (Int entry = 0; entry < members.size; ++entry) {
            const Int node = group.node(members[entry]);
            const double share = shares[entry];
            if (node == winner) {
                won = share;
            } else {
                lost += share;
                diagonal[node] += count * share * (1.0 - share);
            }
        }
        diagonal[winner] += count * won * lost;
    }
}

// The Newton step by conjugate gradients, with the residual reduced by `rtol`, into `space.step`;
// `space.diagonal` is the preconditioner. Whether the residual was reduced that far.
inline bool find_step(const Group &group, double stiffness, const Space &space, double rtol) {
    const Out<double> residual = space.residual, scaled = space.scaled, direction = space.direction,
                      bent = space.bent;
    double energy = 0.0;
    for (Int node = 0; node < group.size; ++node) {
        space.step[node] = 0.0;
        residual[node] = -space.gradient[node];
        direction[node] = scaled[node] = residual[node] / space.diagonal[node];
        energy += residual[node] * scaled[node];
    }
    const double goal = rtol * rtol * energy;
    for (int turn = 0; turn < MAX_TURNS; ++turn) {
        if (energy <= goal || energy <= 0.0) return true;
        bend(group, space);
        double curvature = 0.0;
        for (Int node = 0; node < group.size; ++node) {
            bent[node] += stiffness * direction[node];
            curvature += bent[node] * direction[node];
        }
        if (curvature <= 0.0) return true;
        const double length = energy / curvature;
        double fresh = 0.0;
        for (Int node = 0; node < group.size; ++node) {
            space.step[node] += length * direction[node];
            residual[node] -= length * bent[node];
            scaled[node] = residual[node] / space.diagonal[node];
            fresh += residual[node] * scaled[node];
        }
        const double share = fresh / energy;
        energy = fresh;
        for (Int node = 0; node < group.size; ++node) direction[node] = scaled[node] + share * direction[node];
    }
    return false;
}

// Raise each score by ln(observed wins / expected wins), a few times.
//
// Each time lowers the loss (Hunter 2004) at the cost of one gradient. Groups in which some alternative never
// wins are left unchanged.
inline void guess_scores(const Group &group, Out<double> scores, const Space &space) {
    Array<double> observed(group.size);
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice)
        observed[group.winner(choice)] += group.count(choice);
    for (const double wins : observed)
        if (wins <= 0.0) return;
    for (int guess = 0; guess < N_GUESSES; ++guess) {
        weigh(group, scores, space);
        for (Int node = 0; node < group.size; ++node)
            scores[node] -= std::log1p(space.gradient[node] / observed[node]);
    }
}

// Add the pull of the anchor to the gradient of the loss; the largest entry.
inline double add_pull(Out<double> gradient, In<double> anchor, double stiffness, In<double> scores) {
    double total = 0.0, largest = 0.0;
    for (Int node = 0; node < gradient.size; ++node) {
        gradient[node] += stiffness * (scores[node] - anchor[node]);
        total += gradient[node];
    }
    for (double &entry : gradient) {
        if (stiffness == 0.0) entry -= total / gradient.size; // a constant changes nothing: rounding must not push along it
        largest = std::max(largest, std::abs(entry));
    }
    return largest;
}

// Move the scores of one group to the minimum; the largest gradient entry.
//
// Along a step whose entries differ by at most d the curvature changes at most by the factor e^d, so the fraction
// ln(1 + d)/d of it lowers the function without a line search; it tends to 1. A group whose steps exhaust their
// iterations is abandoned early, with the gradient reached so far, and so is one that rounding keeps from improving.
inline double solve_group(const Group &group, In<double> anchor, double stiffness, Out<double> scores,
                          const Space &space, double atol, Int max_steps) {
    double before = INFINITE, last = INFINITE, spread = INFINITE;
    int stalls = 0;
    if (stiffness == 0.0) guess_scores(group, scores, space);
    for (Int step = 0; step <= max_steps; ++step) {
        weigh(group, scores, space);
        const double largest = add_pull(space.gradient, anchor, stiffness, scores);
        if (largest <= atol || step == max_steps || stalls == MAX_STALLS) return largest;
        const double gain = step > 0 ? largest / before : 1.0;
        const double closer = std::max(std::max(gain * gain, CLOSEST), 0.5 * atol / largest);
        if (spread > STEADY) {
            find_diagonal(group, space);
            for (double &entry : space.diagonal) entry = std::max(entry + stiffness, 1e-300);
        }
        stalls += !find_step(group, stiffness, space, std::min(0.1, closer));
        last = before;
        before = largest;
        double lowest = INFINITE, highest = -INFINITE;
        for (const double move : space.step) {
            lowest = std::min(lowest, move);
            highest = std::max(highest, move);
        }
        spread = std::max(highest - lowest, 1e-12);
        if (spread < 1e-9 && largest > 0.5 * last) return largest; // full steps without gain: the rest is rounding
        const double share = std::log1p(spread) / spread;
        for (Int node = 0; node < group.size; ++node) scores[node] += share * space.step[node];
    }
    return INFINITE;
}

// How many choices the node in most of them is in; `often` is overwritten.
inline double count_most(const Group &group, Out<double> often) {
    std::fill(often.begin(), often.end(), 0.0);
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice)
        for (const Int32 member : group.members(choice)) often[group.node(member)] += group.count(choice);
    return *std::max_element(often.begin(), often.end());
}

// Move the scores of the groups `chosen` from the anchor to their minimum; `stalled` tells which of them ended far
// from the tolerance.
inline void solve_groups(const Groups &groups, In<Int> chosen, In<double> anchor, double stiffness, Out<double> scores,
                         Out<bool> stalled, double atol, Int max_steps) {
    const Room room(groups, chosen);
    for (const Int number : chosen) {
        const Group group = groups[number];
        const In<double> from = anchor.slice(group.first, group.first + group.size);
        const Out<double> moved = scores.slice(group.first, group.first + group.size);
        std::copy(from.begin(), from.end(), moved.begin());
        const Space space = room.of(group);
        double farthest = 0.0;
        for (const double score : from) farthest = std::max(farthest, std::abs(score));
        const double goal = atol + 8 * EPSILON * (count_most(group, space.step) + stiffness * farthest);
        stalled[number] = solve_group(group, from, stiffness, moved, space, goal, max_steps) > FAR * goal;
    }
}

} // namespace attomaton::soft
