"""Mutants that change nothing a reader or a test could see, each with the reason: see docs/testing.md."""

from __future__ import annotations

ORDER = "Parts that do not touch each other are done, or added in float64, in another order"
MORE = "Slopes are worked out that nobody asked for yet"
REPLACED = "A number that is put in place of 0 to divide by, where the result is thrown away"
NOTHING = "A learned number has no terms, and a token's slope is refused before"
ONCE = "Of a list of one, the first is the last"
HEADS = "The mask is made for each head instead of once for all"
LIMIT = "A limit on memory is one number higher"
EXACT = "At a probability of exactly 2⁻¹²⁶, p and log p are read alike"

# A mutant's key -> why it is harmless. Such mutants are not run.
HARMLESS: dict[str, str] = {
    "descend: other function: reversed(run.model.graph.sites) → run.model.graph.sites": ORDER,
    "on_demand: other function: reversed(graph.gradient_rules(name)) → graph.gradient_rules(name)": ORDER,
    "Learning._walk: operator: j < k → j <= k": MORE,
    "slopes_at_the_end: constant factor: torch.where(tiny, 1.0, p) → torch.where(tiny, 2.0, p)": REPLACED,
    "minus_log_p: constant factor: torch.where(tiny, 1.0, p) → torch.where(tiny, 2.0, p)": REPLACED,
    "passed_back_to: operator: node.is_parameter or node.name == 'tokens' → "
    "node.is_parameter and node.name == 'tokens'": NOTHING,
    "passed_back_to: other branch: if node.is_parameter or node.name == 'tokens' → if False": NOTHING,
    "Choice.rank_of: wrong place: np.flatnonzero(self.order == token) → "
    "np.flatnonzero(self.order == token)[::-1]": ONCE,
    "causal: off by one: -2 → -3": HEADS,
    "expression: off by one: 16000000 → 16000001": LIMIT,
    "Values.underflows: operator: self.value_at('probs', (t, self.next_token(t))) < torch.finfo(torch.float32).tiny → "
    "self.value_at('probs', (t, self.next_token(t))) <= torch.finfo(torch.float32).tiny": EXACT,
}
