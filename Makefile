# Each target is a script of its own; arguments go through ARGS, as in `make test ARGS='--only test.*'`.

.PHONY: demo test soak bench lint image clean-run

demo test soak bench lint image:
	@scripts/$@ $(ARGS)

# What the runs left behind: logs, data, copied programs. Caches outside the checkout stay.
clean-run:
	rm -rf .run
