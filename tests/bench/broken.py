"""Layers that compute something else than they should."""

from xcnorm.bench import gate


def break_layers(monkeypatch, wrong):
    """Have all layers that a gate looks at, but the reference, answer with ``wrong(output)``."""
    right = gate.make

    def make(side, shape, **options):
        layer = right(side, shape, **options)
        if options.get("backend") != "reference":
            layer.register_forward_hook(lambda layer, input, output: wrong(output))
        return layer

    monkeypatch.setattr(gate, "make", make)
    monkeypatch.setattr(gate, "_gate", gate._gate.__wrapped__)  # which would remember what was right
