"""One forward pass through the network with every hook point's output kept, and numbers changed on the way if asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from model.address.patch import Patch
from model.arch.network import HookPoint, Network
from model.arch.registry import architecture_of


class Capture:
    """Hangs a hook on every hook point of `net`, once. Several threads may capture at once, each into its own."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.sites = [site for site, module in net.named_modules() if isinstance(module, HookPoint)]
        self._own = threading.local()
        for site in self.sites:  # hooks that do not hold this object: a network is freed with its last user
            net.get_submodule(site).register_forward_hook(partial(_keep, self._own, site))

    def on(self, weights: Mapping[str, Tensor]) -> Capture:
        """The capture of a network with these weights, under the network's names, in place of its own.

        It is another network, not this one for a while: other threads may be running this one.
        """
        return Capture(self.net.with_weights(weights)) if weights else self

    def __call__(self, tokens: Sequence[int], patches: Sequence[Patch] = ()) -> dict[str, Tensor]:
        """Every hook point's output for these tokens, batch axis in front."""
        capture = self.on(self.changed_weights(patches))
        with capture.recording(patches) as captured:
            capture.net(torch.tensor([list(tokens)], device=self.net.W_E.device))
        return captured

    @contextmanager
    def recording(self, patches: Sequence[Patch] = ()) -> Iterator[dict[str, Tensor]]:
        """Keeps, under their sites, what the hook points that this thread calls meanwhile put out (patched)."""
        captured: dict[str, Tensor] = {}
        self._own.captured, self._own.patches = captured, patches
        try:
            yield captured
        finally:
            self._own.captured = None

    def changed_weights(self, patches: Sequence[Patch]) -> dict[str, Tensor]:
        """The network's own parameters that patches change, as changed copies under the network's names."""
        stored = dict(self.net.named_parameters()) if patches else {}
        architecture = architecture_of(self.net.config)
        changed: dict[str, Tensor] = {}
        for patch in patches:
            if patch.at.site not in self.sites:
                name = architecture.stored_under(patch.at.site)
                copy = changed.get(name, stored[name]).detach().clone()
                view = architecture.views(name, copy, self.net.config)[patch.at.site]
                view[...] = patch.applied(view)
                changed[name] = copy
        return changed


def _keep(
    own: threading.local, site: str, _module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor
) -> Tensor | None:
    captured: dict[str, Tensor] | None = getattr(own, "captured", None)
    if captured is None:
        return None
    for patch in own.patches:
        if patch.at.site == site:
            output = patch.applied(output[0])[None]
    captured[site] = output
    return output


def parameter_views(net: Network) -> dict[str, Tensor]:
    """All parameters of a network under the graph's names and axes, as views of the stored ones, never copies."""
    views, found = architecture_of(net.config).views, dict[str, Tensor]()
    for name, tensor in net.named_parameters():
        found |= views(name, tensor.detach(), net.config)
    return found
