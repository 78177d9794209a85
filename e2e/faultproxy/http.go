package faultproxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
)

// HTTP starts a proxy before an HTTP/1.1 server at host:port. An answer is lost
// after the server has written all of it; which could be, match says of the
// request's method and path.
func HTTP(target string, faults *Faults, match func(method, path string) bool) (*Proxy, error) {
	return start("tcp", target, func(client, server net.Conn) {
		requests, answers := bufio.NewReader(client), bufio.NewReader(server)
		for exchange(client, server, requests, answers, faults, match) {
		}
	})
}

// exchange passes one request and its answer on; false ends the connection.
func exchange(client, server net.Conn, requests, answers *bufio.Reader, faults *Faults, match func(method, path string) bool) bool {
	request, err := http.ReadRequest(requests)
	if err != nil {
		return false
	}
	method, path := request.Method, request.URL.Path
	if request.Write(server) != nil {
		return false
	}
	response, err := http.ReadResponse(answers, request)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return false
	}
	kind := method + " " + path[strings.LastIndexByte(path, '/')+1:]
	if response.StatusCode < 300 && match(method, path) && faults.decide(kind) {
		return false
	}
	response.Body = io.NopCloser(strings.NewReader(string(body)))
	response.ContentLength, response.TransferEncoding = int64(len(body)), nil
	return response.Write(client) == nil && !response.Close && !request.Close
}
