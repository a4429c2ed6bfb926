"""Live parts: small things to play with inside a lesson, each with a URL of its own, `/embed/NAME?…`.

One module per part says what can be set and what is shown; `base` is the contract, `table` finds them all. The other
modules (`aim`, `attention`, `expressions`, `plane`) hold what several parts look at or write.
"""
