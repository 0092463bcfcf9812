/* SPDX-License-Identifier: MIT */
/* Who references a stream, and lets it go when the program has freed it: heaps. */
#ifndef WEIR__STREAM_KEEPER_H
#define WEIR__STREAM_KEEPER_H

struct weir_stream;

struct weir__stream_keeper {
	struct weir__stream_keeper *next, **link; /* NULL: on no list */
	/* Called one after the other; the first under the stream's lock. */
	void (*hold)(struct weir__stream_keeper *keeper);
	void (*freed)(struct weir__stream_keeper *keeper);
};

/*
 * Reference the stream, and call @keeper when the program has freed it. If it is
 * native, weir_stream_free() from now on queues a marker, and later ones are not
 * queued. -ENOMEM.
 */
int weir__stream_keep(struct weir_stream *s,
		      struct weir__stream_keeper *keeper);
/* From now on @keeper is not called. The stream stays referenced. */
void weir__stream_unkeep(struct weir_stream *s,
			 struct weir__stream_keeper *keeper);

#endif
