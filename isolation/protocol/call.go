package protocol

import (
	"encoding/json"
	"fmt"
)

// Call is a call of a recorded command: of the supervisor's binary under the
// command's name. It goes from there to the supervisor, and on to the host.
type Call struct {
	ID   uint32   `json:"id"` // chosen by the supervisor
	Tool string   `json:"tool"`
	Argv []string `json:"argv"` // without the program's name
	// Fault says why Argv is not what it was called with; "": it is.
	Fault string `json:"fault,omitempty"`
}

// Reply answers a Call, and goes back the same way.
type Reply struct {
	ID     uint32 `json:"id"`
	Exit   int    `json:"exit"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Line is written at the end of the file Log by the called binary, with the
	// rights of who called it; where that fails, it makes the file Log.error.
	Line string `json:"line,omitempty"`
	Log  string `json:"log,omitempty"` // absolute; "": nothing is written
}

// MaxReply is the most bytes that the texts of a Reply may have together: each
// of them may need six on the way.
const MaxReply = 128 << 10

// MarshalJSON writes the call with its texts escaped.
func (c Call) MarshalJSON() ([]byte, error) {
	type plain Call
	p := plain(c)
	p.Tool, p.Argv, p.Fault = escape(c.Tool), escapeAll(c.Argv), escape(c.Fault)
	return marshal(p)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Call) UnmarshalJSON(data []byte) error {
	type plain Call
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	if err := unescapeAll(p.Argv); err != nil {
		return err
	}
	if err := unescapeEach(&p.Tool, &p.Fault); err != nil {
		return err
	}
	*c = Call(p)
	return nil
}

// MarshalJSON writes the reply with its texts escaped.
func (r Reply) MarshalJSON() ([]byte, error) {
	type plain Reply
	p := plain(r)
	p.Stdout, p.Stderr, p.Line, p.Log = escape(r.Stdout), escape(r.Stderr), escape(r.Line), escape(r.Log)
	return marshal(p)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Reply) UnmarshalJSON(data []byte) error {
	type plain Reply
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	if err := unescapeEach(&p.Stdout, &p.Stderr, &p.Line, &p.Log); err != nil {
		return err
	}
	*r = Reply(p)
	return nil
}

// ParseCall reads the payload of a KindCall frame.
func ParseCall(payload []byte) (Call, error) {
	var c Call
	if err := json.Unmarshal(payload, &c); err != nil {
		return Call{}, fmt.Errorf("%w: a call cannot be read: %v", ErrFrame, err)
	}
	return c, nil
}

// ParseReply reads the payload of a KindReply frame.
func ParseReply(payload []byte) (Reply, error) {
	var r Reply
	if err := json.Unmarshal(payload, &r); err != nil {
		return Reply{}, fmt.Errorf("%w: a reply cannot be read: %v", ErrFrame, err)
	}
	return r, nil
}
