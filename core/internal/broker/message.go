package broker

import (
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Target is where messages go, and as whom.
type Target struct {
	Tenant         tenant.ID
	Broker         *api.Broker
	User, Password string
}

// Message is one execution of a job as it is sent.
type Message struct {
	// ID is the same for each attempt of a job.
	ID string
	// Delivery is the same for repeats of one execution only.
	Delivery string
	// Once is what the broker may recognise a repeat by, where it does so: Delivery, or ID where a message that was
	// sent by an earlier attempt makes this one needless.
	Once string
	// Type is the job's, CorrelationID may be empty.
	Type, CorrelationID string
	Headers             []Header
	Body                []byte
}

// Header is one header of a message.
type Header struct{ Name, Value string }

// RefusalError is a failure that the broker has told, or that it is to blame for.
type RefusalError struct {
	// Kind is the type of the job's error, Message a sentence without addresses, Detail what the broker said.
	Kind, Message, Detail string
	// Healthy says that the broker works, but not for this message; Permanent that a repeat cannot help, Retry that
	// one at once may.
	Healthy, Permanent, Retry bool
}

func (r *RefusalError) Error() string { return "broker: " + r.Kind + ": " + r.Message }

// maxDetail is how much of a broker's text is kept, in bytes.
const maxDetail = 1024

// Detail cuts what a broker said.
func Detail(text string) string {
	return text[:min(len(text), maxDetail)]
}

// Kinds of refusals.
const (
	KindAuthentication = "authentication_failed"
	KindAccess         = "access_refused"
	KindUnroutable     = "unroutable"
	KindMissing        = "no_destination"
	KindTooLarge       = "message_too_large"
	KindNotConfirmed   = "not_confirmed"
	KindRefused        = "answer_refused"
	KindTooMany        = "too_many_connections"
	KindTLS            = "tls"
)

// Lost is a connection that has ended.
func Lost() *RefusalError {
	return &RefusalError{Kind: "connection_lost", Message: "the connection to the broker was lost", Retry: true}
}

// Unauthenticated is a login that was refused.
func Unauthenticated(text string) *RefusalError {
	return &RefusalError{Kind: KindAuthentication, Message: "the broker refused the user or password", Detail: Detail(text)}
}

// AccessRefused is a user who may not publish there.
func AccessRefused(text string) *RefusalError {
	return &RefusalError{Kind: KindAccess, Message: "the broker does not let this user publish there", Detail: Detail(text), Healthy: true}
}

// TooLarge is a message above the broker's bound.
func TooLarge() *RefusalError {
	return &RefusalError{Kind: KindTooLarge, Message: "the message is larger than the broker takes", Healthy: true, Permanent: true}
}
