SMALL = {"phases": 2, "gap": 4, "batch": 16, "ascent_steps": 3, "step_size": 100.0, "autoencoder_epochs": 3}
