"""The lessons: their sections, and what each page measures before it claims it."""
