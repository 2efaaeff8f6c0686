"""What can come of asking a language model."""

OK, OFF, FAILED, NOTHING = "ok", "off", "failed", "nothing"
"""ok: something in it holds; off: not asked for, or none set; failed: no answer, and why; nothing: none of it does."""
