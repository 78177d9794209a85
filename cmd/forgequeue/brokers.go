package main

import (
	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
)

// brokers are those that core, run by this program, can publish jobs to.
func brokers() []coreapp.Broker {
	return append([]coreapp.Broker{rabbitmq.Protocol()}, fullBrokers()...)
}
