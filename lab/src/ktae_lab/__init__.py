"""The laboratory of ktae: studies over seeds, the alignment of gradients, tables and figures.

Nobody who only uses ktae needs it.
"""

__version__ = "0.1.0rc1"
