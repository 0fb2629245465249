"""The passes of mugraph: one module or folder a pass, ``analysis`` what several ask."""
