package httpserver

// ring is a list of connections in the order they came. The zero value is empty.
type ring struct{ root link }

// link is a connection's place in a ring; it is in none if next is nil.
type link struct {
	prev, next *link
	conn       *connection
}

// push puts a link last. One that is in the ring already stays where it is.
func (r *ring) push(l *link) {
	if l.next != nil {
		return
	}
	if r.root.next == nil {
		r.root.next, r.root.prev = &r.root, &r.root
	}
	l.prev, l.next = r.root.prev, &r.root
	l.prev.next, r.root.prev = l, l
}

// remove takes a link out of its ring, if it is in one.
func (l *link) remove() {
	if l.next == nil {
		return
	}
	l.prev.next, l.next.prev = l.next, l.prev
	l.prev, l.next = nil, nil
}

// first is the connection that is in the ring longest, nil if there is none.
func (r *ring) first() *connection {
	if r.root.next == nil {
		return nil
	}
	return r.root.next.conn // the root has none
}
