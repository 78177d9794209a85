// Package broker publishes messages to the brokers of tenants: RabbitMQ (AMQP 0-9-1), NATS JetStream and Kafka.
//
//	Publish ─▶ Pool: one connection for each (tenant, URL, credentials) ─▶ amqp | nats | kafka ─▶ guard ─▶ TLS ─▶ outbound.Dialer
//
// A broker is a stranger: it may send anything, in any amount. The libraries' connections are read through a guard,
// which ends them when the broker sends what no broker has to: replies to messages that were never published, frames
// and lines above a bound. Each address is checked when it is dialled, those that a cluster names too, and the
// sockets of a target and of a tenant are bounded. A connection on which a message was not confirmed in time gets no
// more messages: nothing waits in it.
package broker
