"""Why a model or a corpus is bad: checks that name the fault, its place and what to do."""
