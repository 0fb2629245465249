"""The passes of mugraph: one module or folder a pass; ``analysis`` holds what several of them ask."""
