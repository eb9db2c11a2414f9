-- The kinds of the related objects that keys have named, each once.
--
-- KEYS[1] related index ZSET
--
-- Answer: `apiVersion/Kind` each.

local found, from = {}, '-'
while true do
  local member = redis.call('ZRANGEBYLEX', KEYS[1], from, '+', 'LIMIT', 0, 1)[1]
  if not member then return found end
  local kind = string.match(member, '^[^\n]*')
  found[#found + 1] = kind
  from = '[' .. kind .. '\11'
end
