sweep()
return { 'ok', redis.call('ZCARD', root .. 'sessions') }
